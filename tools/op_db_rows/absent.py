"""Entries of op_db without a row, by reason: names, or patterns of names. Haul has a part of the draws, and none of the
others."""
from fnmatch import fnmatchcase

REASONS = {
    "draws, whose numbers differ, and memory without values": """
        cauchy exponential geometric log_normal normal normal.* uniform rand_like randn randn_like randint
        randint_like bernoulli multinomial nn.functional.rrelu nn.functional.feature_alpha_dropout.*
        nn.functional.fractional_max_pool* empty empty_like empty_permuted empty_strided new_empty new_empty_strided
        svd_lowrank pca_lowrank""",
    "complex and sparse tensors": """
        conj conj_physical resolve_conj resolve_neg view_as_real view_as_complex complex real imag angle polar
        isreal cdouble cfloat chalf nn.functional.silu.complex to_sparse sparse.* linalg.eig linalg.eigvals""",
    "storage, and writing in place": """
        as_strided as_strided.* as_strided_copy as_strided_scatter resize_ resize_as_ diagonal_scatter
        _unsafe_masked_index _unsafe_masked_index_put_accumulate hash_tensor""",
    "tests of equality, and Python's values": """
        item equal allclose broadcast_shapes jiterator_*""",
    "parts of PyTorch's own interior": """
        _softmax_backward_data native_batch_norm _native_batch_norm_legit _batch_norm_with_update
        native_dropout_backward max_pool2d_with_indices_backward torch._scaled_mm* torch.ops.aten.*
        bmm.triton_optimized _chunk_cat _segment_reduce.* nn.functional.linear_cross_entropy.chunked*""",
    "mathematical functions": """
        i0 igamma igammac mvlgamma.* frexp gcd lcm special.airy_ai
        special.bessel_* special.chebyshev_* special.entr special.erfcx special.hermite_* special.i0e special.i1
        special.i1e special.laguerre_* special.legendre_* special.log_ndtr special.modified_* special.ndtri
        special.scaled_* special.shifted_* special.spherical_* special.zeta gradient renorm""",
    "masked forms": "masked.argmax masked.argmin masked.median masked.norm masked.normalize masked.std masked.var",
    "windows of signals": "signal.windows.*",
    "Fourier transforms of Hermitian pictures": "fft.hfft2 fft.hfftn fft.ihfft2 fft.ihfftn",
    "linear algebra": """
        geqrf ormqr lu_solve lu_unpack linalg.lu_solve linalg.ldl_* linalg.householder_product
        linalg.matrix_sqrth linalg.polar linalg.matrix_rank linalg.matrix_rank.* matrix_exp""",
    "arrangements": "combinations tril_indices triu_indices",
    "statistics": "nanquantile histogramdd",
    "layers and losses": """
        nn.functional.embedding_bag nn.functional.multilabel_margin_loss
        nn.functional.multi_head_attention_forward""",
}

PATTERNS = {pattern: reason for reason, names in REASONS.items() for pattern in names.split()}


def reason_of(name):
    return next((reason for pattern, reason in PATTERNS.items() if fnmatchcase(name, pattern)), None)
