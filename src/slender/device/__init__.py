"""What runs on the device where the tensors are: fused Triton kernels, each with a twin in torch.

    softmax_residuals    residuals, losses and doubts of a chunk of scores (softmax.py)
    pick                 the pairs of a row and a class with the largest curvature (picking.py)
    moments, add_by_class    sums of rows, and of the rows of each class (row_sums.py)
    dots                 products of single pairs of rows (pairs.py)
    line_moments         what the line search asks of its sample (line.py)
    ranks_and_losses     how good the scores of a chunk are (ranks.py)
    sweep_classes        a pass of SLND, each class visiting one example after the other (sweep.py)

margins.py has the margin losses on tensors, draws.py the random visits of a pass, summing.py the
errors of long sums.  Each function above chooses by its tensors: the Triton kernel on a GPU (the
softmax only in float32), the twin on a CPU and where Triton is not installed.  The two agree to
rounding, which `python -m benchmarks.gpu_kernels` checks wherever there is a GPU.
"""

from .softmax import softmax_residuals
from .sweep import sweep_classes

__all__ = ["softmax_residuals", "sweep_classes"]
