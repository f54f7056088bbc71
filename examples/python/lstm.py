#!/usr/bin/env python3
"""../lstm.c in Python: an LSTM that learns to predict a long signal, in chunks that carry its state. lstm.py [DEVICE]"""

import sys

import haul
from haul import nn, optim

haul.set_device(sys.argv[1] if len(sys.argv) > 1 else "auto")
haul.manual_seed(1)
STREAMS, CHUNK, CHUNKS, HIDDEN = 8, 25, 40, 32
begin = haul.arange(0, STREAMS * 11, 11, dtype="f32")[:, None]
t = haul.arange(0, (CHUNKS + 1) * CHUNK + 1, 1, dtype="f32") + begin
signal = (((t * 0.2).sin() + (t * 0.031).sin()) * 0.5)[:, :, None]
lstm, head = nn.lstm(1, HIDDEN), nn.linear(HIDDEN, 1)
net = nn.list([lstm, head])
adam = optim.adam(net, 0.005)
for epoch in range(1, 5):
    total, h, c = 0.0, None, None
    for at in range(0, CHUNKS * CHUNK, CHUNK):
        with haul.budget(d2h_bytes=4, waits=1):  # the loss; the state stays on the device
            adam.zero_grad()
            y, h, c = lstm(signal[:, at : at + CHUNK], h, c)
            loss = haul.mse_loss(head(y), signal[:, at + 1 : at + CHUNK + 1])
            loss.backward()
            haul.clip_grad_norm(net, 1)
            adam.step()
            h, c = h.detach(), c.detach()
            total += loss.item()
    print(f"epoch {epoch}: loss {total / CHUNKS:.6f}")
# The effect of the state: the loss of the next chunk with and without it.
with haul.no_grad():
    x, y = signal[:, -CHUNK - 1 : -1], signal[:, -CHUNK:]
    used = haul.mse_loss(head(lstm(x, h, c)[0]), y).item()
    fresh = haul.mse_loss(head(lstm(x)[0]), y).item()
print(f"the next chunk: loss {used:.6f} with the state, {fresh:.6f} without")
