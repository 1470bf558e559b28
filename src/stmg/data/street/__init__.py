"""The rendered street: `plan` draws it up, `blocks` and `traffic` fill it, `street` draws what a camera sees of it."""
