"""train.c in Python, with ctypes: python3 train.py [libhaul.so]. Each macro with options stands for a function NAME_with,
which takes a pointer to a struct. Its members and their order are those of the header; 0 selects the default."""
import ctypes as c
import sys

haul = c.CDLL(sys.argv[1] if len(sys.argv) > 1 else "libhaul.so")
Object = type("Object", (c.c_void_p,), {})  # a result of this type stays a pointer when it is passed on


def struct(**members):
    return type("Struct", (c.Structure,), {"_fields_": list(members.items())})


i32, i64, flag = c.c_int, c.c_int64, c.c_bool
Linear = struct(out_features=i64, no_bias=flag, relu=flag)
Adam = struct(module=Object, lr=c.c_double, betas=c.c_double * 2, eps=c.c_double, weight_decay=c.c_double,
              amsgrad=flag, parameters=c.c_void_p, count=i32)
Synthetic = struct(count=i64, seed=c.c_uint64, test=flag)
Loader = struct(dataset=Object, batch=i64, shuffle=flag, seed=c.c_uint64, drop_last=flag, workers=i32, prefetch=i32,
                device=Object, weights=Object, samples=i64, pieces=i32, first_piece=i32, piece_count=i32)
Call = struct(x=Object * 8, more=Object * 7, mode=i32)
Loss = struct(target=Object, weight=Object, pos_weight=Object, reduction=i32)
Backward = struct(y=Object, seed=Object, keep=flag, once=flag)
Budget = struct(h2d_bytes=i64, d2h_bytes=i64, d2d_bytes=i64, group_bytes=i64, waits=i64, planned=flag, everywhere=flag)
Batch = struct(x=Object, y=Object, index=i64, size=i64)

for name in ("scope_push nn_linear_with nn_sequential adam_with blobs_with loader_new_with call_with "
             "bce_with_logits_with").split():
    getattr(haul, "haul_" + name).restype = Object
haul.haul_loader_next.restype, haul.haul_loader_batches.restype = c.POINTER(Batch), i64
haul.haul_item.restype, haul.haul_error_message.restype = c.c_double, c.c_char_p


def train(net, adam, loader, epoch):
    total = 0.0
    haul.haul_loader_start(loader, i64(epoch))
    while batch := haul.haul_loader_next(loader):
        scope = haul.haul_scope_push()
        haul.haul_budget_with(c.byref(Budget(d2h_bytes=4, waits=1)))  # the loss
        haul.haul_optimizer_zero_grad(adam)
        logits = haul.haul_call_with(net, c.byref(Call((batch[0].x,))))
        loss = haul.haul_bce_with_logits_with(logits, c.byref(Loss(batch[0].y)))
        haul.haul_backward_with(c.byref(Backward(loss)))
        haul.haul_optimizer_step(adam)
        total += haul.haul_item(loss)
        haul.haul_scope_pop(scope)
    return total / haul.haul_loader_batches(loader)


program = haul.haul_scope_push()
haul.haul_manual_seed(c.c_uint64(1))
layers = [haul.haul_nn_linear_with(i64(i), c.byref(o)) for i, o in [(10, Linear(16, relu=True)), (16, Linear(1))]]
network = haul.haul_nn_sequential((Object * 2)(*layers), 2)
optimizer = haul.haul_adam_with(c.byref(Adam(network, 0.01, (0.9, 0.99))))
blobs = haul.haul_blobs_with(c.byref(Synthetic(1024, seed=1)))
batches = haul.haul_loader_new_with(c.byref(Loader(blobs, batch=64, shuffle=True)))
for number in range(1, 6):
    print(f"epoch {number}: loss {train(network, optimizer, batches, number):.6f}")
    if haul.haul_error_message():
        sys.exit(haul.haul_error_message().decode())
