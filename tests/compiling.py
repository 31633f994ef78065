"""Triton kernels compiled for a GPU that is not there: the interpreter accepts more."""


def compiled(kernel, types, fixed, warps):
    """The machine code of a kernel for an H100 or H200; needs no GPU."""
    from triton import compile as build
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    signature = {name: types(name) for name in kernel.arg_names}
    source = ASTSource(kernel, signature | dict.fromkeys(fixed, "constexpr"), fixed)
    options = {"num_warps": warps, "enable_fp_fusion": True}
    return build(source, target=GPUTarget("cuda", 90, 32), options=options).asm["cubin"]
