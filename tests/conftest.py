import torch

# The tests' tensors are tiny, and threads that wait for each other on a busy machine take far longer than the work.
torch.set_num_threads(1)
