// The API, and how a problem becomes one line.

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export async function call(method, path, body) {
  let response;
  try {
    response = await fetch(path, {
      method,
      headers: body === undefined ? {} : { "content-type": "application/json" },
      body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new ApiError(0, "The server does not answer.");
  }
  if (!response.ok) {
    throw new ApiError(response.status, await reason(response));
  }
  return response.status === 204 ? null : response.json();
}

async function reason(response) {
  try {
    return (await response.json()).error;
  } catch {
    return `The server answered ${response.status}.`;
  }
}

export function problem(element, text) {
  element.textContent = text ?? "";
  element.hidden = !text;
}

export function option(value, text = value) {
  const element = document.createElement("option");
  element.value = value;
  element.textContent = text;
  return element;
}
