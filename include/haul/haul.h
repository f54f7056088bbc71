/* Haul: tensors on CPUs and GPUs. This header includes all others. */
#ifndef HAUL_HAUL_H
#define HAUL_HAUL_H

#include <haul/autocast.h>
#include <haul/autograd.h>
#include <haul/average.h>
#include <haul/base.h>
#include <haul/budget.h>
#include <haul/conv.h>
#include <haul/custom.h>
#include <haul/data.h>
#include <haul/dataset.h>
#include <haul/device.h>
#include <haul/dtype.h>
#include <haul/error.h>
#include <haul/estimate.h>
#include <haul/events.h>
#include <haul/files.h>
#include <haul/indexing.h>
#include <haul/io.h>
#include <haul/layers.h>
#include <haul/ledger.h>
#include <haul/loss.h>
#include <haul/memory.h>
#include <haul/nn.h>
#include <haul/operation.h>
#include <haul/ops.h>
#include <haul/optim.h>
#include <haul/placement.h>
#include <haul/plan.h>
#include <haul/profile.h>
#include <haul/program.h>
#include <haul/publish.h>
#include <haul/random.h>
#include <haul/recording.h>
#include <haul/schedule.h>
#include <haul/scope.h>
#include <haul/speed.h>
#include <haul/stats.h>
#include <haul/sync.h>
#include <haul/tensor.h>
#include <haul/train.h>
#include <haul/transfer.h>
#include <haul/transform.h>
#include <haul/usage.h>

#endif
