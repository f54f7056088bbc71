# What tests that start programs with MPI share: `launchers` has the launchers of Open MPI and MPICH that are installed.
# The variables are for Open MPI in the container of a test, which may lack links between processes' memories.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_btl=self,vader OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none
launchers=()
command -v mpirun.openmpi >/dev/null && launchers+=(mpirun.openmpi)
command -v mpiexec.mpich >/dev/null && launchers+=(mpiexec.mpich)
