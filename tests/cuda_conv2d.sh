# The tests of convolutions that run on every device, on a GPU of the stand-in driver, by the kernels: what serves where
# there is no cuDNN.
# ctest: labels=no-tsan; timeout=300
export HAUL_CUDA_LIBRARIES=$HAUL_BUILD/tests/standin HAUL_TEST_DEVICES=cuda:0 HAUL_CUDA_WITHOUT=cudnn
exec "$HAUL_BUILD/tests/test_ops_conv2d"
