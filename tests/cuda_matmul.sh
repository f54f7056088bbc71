# The tests of matrix products that run on every device, on a GPU of the stand-in driver: by the stand-in for cuBLASLt, and
# by the kernels where there is none.
# ctest: labels=no-tsan; timeout=600
export HAUL_CUDA_LIBRARIES=$HAUL_BUILD/tests/standin HAUL_TEST_DEVICES=cuda:0
"$HAUL_BUILD/tests/test_ops_matmul" || exit 1
HAUL_CUDA_WITHOUT=cublas "$HAUL_BUILD/tests/test_ops_matmul"
