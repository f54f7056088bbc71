#!/usr/bin/python3
"""Makes tests/golden/layers.safetensors: for each layer its weights, inputs, results and gradients, computed by PyTorch in
float64. Run from the top of the tree with Debian's python3-torch. tests/nn/test_layers.c reads it.

Names are CASE/weight.NAME, CASE/in.I, CASE/out.I, CASE/seed.I (the gradients of the results), CASE/grad.NAME and
CASE/gin.I. An input that is not floating is written as it is and has no gradient."""
import json
import struct

import torch
from torch import nn

torch.manual_seed(1)
torch.set_default_dtype(torch.float64)
DTYPES = {torch.float64: "F64", torch.int64: "I64", torch.bool: "BOOL"}


class Attention(nn.Module):
    """MultiheadAttention with a mask that is true where a score counts."""

    def __init__(self, features, heads, causal=False, **options):
        super().__init__()
        inner = nn.MultiheadAttention(features, heads, batch_first=True, **options)
        self.__dict__["inner"] = inner  # its parameters are listed under their own names
        self.causal = causal

    def named_parameters(self):
        return self.inner.named_parameters()

    def forward(self, query, key=None, value=None, mask=None):
        key = query if key is None else key
        value = key if value is None else value
        if self.causal:
            mask = torch.ones(query.shape[1], key.shape[1], dtype=torch.bool).tril()
        return self.inner(query, key, value, attn_mask=None if mask is None else ~mask, need_weights=False)[0]


class Recurrent(nn.Module):
    """The state as plain inputs and results."""

    def __init__(self, kind, *sizes, **options):
        super().__init__()
        self.__dict__["inner"] = kind(*sizes, batch_first=True, **options)

    def named_parameters(self):
        return self.inner.named_parameters()

    def forward(self, x, *state):
        state = None if not state else state if isinstance(self.inner, nn.LSTM) else state[0]
        y, state = self.inner(x, state)
        return (y, *state) if isinstance(state, tuple) else (y, state)


class Packed(Recurrent):
    """Sequences of different lengths, the last input, as a packed sequence."""

    def forward(self, x, *inputs):
        *state, lengths = inputs
        state = tuple(state) if isinstance(self.inner, nn.LSTM) else state[0]
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        y, state = self.inner(packed, state)
        y, _ = nn.utils.rnn.pad_packed_sequence(y, batch_first=True, total_length=x.shape[1])
        return (y, *state) if isinstance(state, tuple) else (y, state)


class Cell(Recurrent):
    """A cell, whose state is given as plain inputs."""

    def __init__(self, kind, *sizes, **options):
        nn.Module.__init__(self)
        self.__dict__["inner"] = kind(*sizes, **options)

    def forward(self, x, *state):
        state = None if not state else state if isinstance(self.inner, nn.LSTMCell) else state[0]
        return self.inner(x, state)


class Block(nn.Module):
    """A transformer block of char_gpt."""

    def __init__(self):
        super().__init__()
        self.norm1 = nn.LayerNorm(32)
        self.attention = nn.MultiheadAttention(32, 4, batch_first=True)
        self.norm2 = nn.LayerNorm(32)
        self.up = nn.Linear(32, 128)
        self.down = nn.Linear(128, 32)

    def forward(self, x):
        h, later = self.norm1(x), torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        x = x + self.attention(h, h, h, attn_mask=later, need_weights=False)[0]
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class CharGpt(nn.Module):
    def __init__(self, context, tokens):
        super().__init__()
        self.token = nn.Embedding(tokens, 32)
        self.position = nn.Parameter(torch.normal(0, 0.02, (context, 32)))
        self.blocks = nn.Sequential(Block(), Block())
        self.norm = nn.LayerNorm(32)
        self.head = nn.Linear(32, tokens, bias=False)
        self.head.weight = self.token.weight

    def named_parameters(self):
        return [*super().named_parameters(), ("head.weight", self.head.weight)]  # which PyTorch lists once

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position[:tokens.shape[1]])))


class Transformer(nn.Module):
    """A layer or a stack with masks that are true where a score counts."""

    def __init__(self, inner, causal=False):
        super().__init__()
        self.__dict__["inner"] = inner
        self.causal = causal

    def named_parameters(self):
        return self.inner.named_parameters()

    def forward(self, x, *inputs):
        def turned(mask):
            return None if mask is None else ~mask

        if self.causal:
            own = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
        decodes = isinstance(self.inner, (nn.TransformerDecoderLayer, nn.TransformerDecoder))
        if decodes:
            memory, *masks = inputs
            return self.inner(x, memory, tgt_mask=turned(own if self.causal else masks[0]),
                              memory_mask=turned(masks[1]) if len(masks) > 1 else None)
        return self.inner(x, turned(own if self.causal else inputs[0] if inputs else None))


def encoder_layer(*sizes, **options):
    return nn.TransformerEncoderLayer(*sizes, dropout=0, batch_first=True, **options)


def decoder_layer(*sizes, **options):
    return nn.TransformerDecoderLayer(*sizes, dropout=0, batch_first=True, **options)


def mask(*rows):
    return torch.tensor(rows) > 0


def double_convolution(before, after):
    return nn.Sequential(nn.Conv2d(before, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU(),
                         nn.Conv2d(after, after, 3, padding=1), nn.BatchNorm2d(after), nn.ReLU())


class UNet(nn.Module):
    def __init__(self, channels, outputs, kinds):
        super().__init__()
        self.down1 = double_convolution(channels, 8)
        self.down2 = double_convolution(8, 16)
        self.middle = double_convolution(16, 32)
        self.kind = nn.Embedding(kinds, 32)
        self.up2 = nn.ConvTranspose2d(32, 16, 2, stride=2)
        self.join2 = double_convolution(32, 16)
        self.up1 = nn.ConvTranspose2d(16, 8, 2, stride=2)
        self.join1 = double_convolution(16, 8)
        self.out = nn.Conv2d(8, outputs, 1)

    def forward(self, picture, kind):
        fine = self.down1(picture)
        coarse = self.down2(nn.functional.max_pool2d(fine, 2))
        x = self.middle(nn.functional.max_pool2d(coarse, 2)) + self.kind(kind)[:, :, None, None]
        x = self.join2(torch.cat([self.up2(x), coarse], 1))
        return self.out(self.join1(torch.cat([self.up1(x), fine], 1)))


def normal(*shape):
    return torch.randn(*shape)


# Name, module, inputs.
CASES = [
    ("layer_norm", nn.LayerNorm(6), [normal(2, 3, 6)]),
    ("attention", Attention(12, 3), [normal(2, 5, 12)]),
    ("attention_causal", Attention(8, 2, causal=True), [normal(2, 6, 8)]),
    ("attention_cross", Attention(8, 4), [normal(2, 3, 8), normal(2, 5, 8), normal(2, 5, 8)]),
    ("attention_mask", Attention(8, 2, bias=False),
     [normal(2, 3, 8), normal(2, 4, 8), normal(2, 4, 8), torch.tensor([[1, 1, 0, 1], [0, 1, 1, 1], [1, 0, 0, 0]]) > 0]),
    ("lstm", Recurrent(nn.LSTM, 3, 4), [normal(2, 5, 3)]),
    ("lstm_state", Recurrent(nn.LSTM, 3, 4), [normal(2, 5, 3), normal(1, 2, 4), normal(1, 2, 4)]),
    ("lstm_deep", Recurrent(nn.LSTM, 3, 4, num_layers=2, bidirectional=True),
     [normal(2, 4, 3), normal(4, 2, 4), normal(4, 2, 4)]),
    ("gru", Recurrent(nn.GRU, 3, 4), [normal(2, 5, 3)]),
    ("gru_deep", Recurrent(nn.GRU, 3, 4, num_layers=2, bidirectional=True, bias=False), [normal(2, 4, 3), normal(4, 2, 4)]),
    ("conv1d", nn.Conv1d(4, 6, 3, stride=2, padding=1, groups=2), [normal(2, 4, 9)]),
    ("conv_transpose2d", nn.ConvTranspose2d(4, 6, (3, 2), stride=2, padding=(1, 0), output_padding=1, groups=2),
     [normal(2, 4, 3, 4)]),
    ("upsample", nn.Upsample(scale_factor=(2, 1.5), mode="bilinear"), [normal(2, 3, 4, 6)]),
    ("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d((2, 3)), [normal(2, 3, 5, 7)]),
    ("adaptive_max_pool2d", nn.AdaptiveMaxPool2d((2, 3)), [normal(2, 3, 5, 7)]),
    ("char_gpt", CharGpt(8, 11), [torch.randint(0, 11, (2, 6))]),
    ("unet", UNet(1, 3, 2), [normal(2, 1, 8, 12), torch.tensor([1, 0])]),
    ("prelu", nn.PReLU(3), [normal(2, 3, 4)]),
    ("group_norm", nn.GroupNorm(2, 6), [normal(2, 6, 3, 2)]),
    ("instance_norm", nn.InstanceNorm2d(3), [normal(2, 3, 4, 2)]),
    ("instance_norm_affine", nn.InstanceNorm1d(3, affine=True), [normal(2, 3, 5)]),
    ("pixel_shuffle", nn.PixelShuffle(2), [normal(1, 8, 2, 3)]),
    ("pixel_unshuffle", nn.PixelUnshuffle(2), [normal(1, 2, 4, 6)]),
    ("conv_transpose1d", nn.ConvTranspose1d(4, 6, 3, 2, 1, 1, 2), [normal(2, 4, 5)]),
    ("conv3d", nn.Conv3d(4, 6, (3, 2, 1), (2, 1, 1), (1, 0, 0), groups=2), [normal(2, 4, 4, 3, 2)]),
    ("conv3d_same", nn.Conv3d(2, 3, 2, padding="same", bias=False), [normal(1, 2, 3, 2, 4)]),
    ("conv_transpose3d", nn.ConvTranspose3d(4, 2, 2, 2), [normal(2, 4, 2, 3, 2)]),
    ("max_pool1d", nn.MaxPool1d(3, 2, 1), [normal(2, 3, 8)]),
    ("avg_pool1d", nn.AvgPool1d(2), [normal(2, 3, 8)]),
    ("max_pool3d", nn.MaxPool3d(2), [normal(1, 2, 4, 3, 5)]),
    ("avg_pool3d", nn.AvgPool3d(2, (1, 2, 1)), [normal(1, 2, 4, 3, 5)]),
    ("adaptive_avg_pool1d", nn.AdaptiveAvgPool1d(3), [normal(2, 3, 8)]),
    ("adaptive_max_pool1d", nn.AdaptiveMaxPool1d(3), [normal(2, 3, 8)]),
    ("adaptive_avg_pool3d", nn.AdaptiveAvgPool3d((2, 1, 3)), [normal(1, 2, 4, 3, 5)]),
    ("rnn", Recurrent(nn.RNN, 3, 4), [normal(2, 5, 3)]),
    ("rnn_relu", Recurrent(nn.RNN, 3, 4, num_layers=2, nonlinearity="relu", bidirectional=True),
     [normal(2, 4, 3), normal(4, 2, 4)]),
    ("rnn_lengths", Packed(nn.RNN, 3, 4), [normal(3, 4, 3), normal(1, 3, 4), torch.tensor([2, 4, 1])]),
    ("lstm_lengths", Packed(nn.LSTM, 3, 4, num_layers=2, bidirectional=True),
     [normal(3, 5, 3), normal(4, 3, 4), normal(4, 3, 4), torch.tensor([3, 4, 1])]),
    ("gru_lengths", Packed(nn.GRU, 3, 4, num_layers=2, bidirectional=True),
     [normal(3, 5, 3), normal(4, 3, 4), torch.tensor([2, 5, 4])]),
    ("lstm_cell", Cell(nn.LSTMCell, 3, 4), [normal(2, 3), normal(2, 4), normal(2, 4)]),
    ("gru_cell", Cell(nn.GRUCell, 3, 4), [normal(2, 3), normal(2, 4)]),
    ("rnn_cell", Cell(nn.RNNCell, 3, 4), [normal(2, 3)]),
    ("rnn_cell_relu", Cell(nn.RNNCell, 3, 4, bias=False, nonlinearity="relu"), [normal(2, 3), normal(2, 4)]),
    ("adaptive_max_pool3d", nn.AdaptiveMaxPool3d((2, 1, 3)), [normal(1, 2, 4, 3, 5)]),
    ("transformer_encoder_layer", Transformer(encoder_layer(8, 2, 12)), [normal(2, 3, 8)]),
    ("transformer_encoder_layer_first", Transformer(encoder_layer(8, 4, 12, activation="gelu", norm_first=True), True),
     [normal(2, 4, 8)]),
    ("transformer_encoder_layer_mask", Transformer(encoder_layer(8, 2, 12)),
     [normal(2, 3, 8), mask([1, 1, 0], [0, 1, 1], [1, 0, 1])]),
    ("transformer_decoder_layer", Transformer(decoder_layer(8, 2, 12), True), [normal(2, 3, 8), normal(2, 4, 8)]),
    ("transformer_decoder_layer_masks", Transformer(decoder_layer(8, 2, 12, norm_first=True)),
     [normal(2, 2, 8), normal(2, 3, 8), mask([1, 0], [1, 1]), mask([1, 1, 0], [0, 1, 1])]),
    ("transformer_encoder", Transformer(nn.TransformerEncoder(encoder_layer(8, 2, 12), 2, nn.LayerNorm(8))),
     [normal(2, 3, 8)]),
    ("transformer_decoder", Transformer(nn.TransformerDecoder(decoder_layer(8, 2, 12), 2), True),
     [normal(2, 3, 8), normal(2, 4, 8)]),
]


def run(name, module, inputs):
    tensors = {f"{name}/weight.{key}": buffer.clone() for key, buffer in module.named_buffers()}
    inputs = [x.requires_grad_() if x.is_floating_point() else x for x in inputs]
    results = module(*inputs)
    results = results if isinstance(results, tuple) else (results,)
    seeds = [torch.randn_like(y) for y in results]
    sum((y * s).sum() for y, s in zip(results, seeds)).backward()
    for key, parameter in module.named_parameters():
        tensors[f"{name}/weight.{key}"] = parameter
        tensors[f"{name}/grad.{key}"] = parameter.grad
    for i, x in enumerate(inputs):
        tensors[f"{name}/in.{i}"] = x
        if x.is_floating_point():
            tensors[f"{name}/gin.{i}"] = x.grad
    for i, (y, s) in enumerate(zip(results, seeds)):
        tensors[f"{name}/out.{i}"] = y
        tensors[f"{name}/seed.{i}"] = s
    return tensors


def save(path, tensors):
    header, data = {"__metadata__": {"made_by": f"tools/golden/layers.py, PyTorch {torch.__version__}"}}, b""
    for name, t in sorted(tensors.items(), key=lambda item: -item[1].element_size()):  # aligned without gaps
        raw = t.detach().contiguous().numpy().tobytes()
        header[name] = {"dtype": DTYPES[t.dtype], "shape": list(t.shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


everything = {}
for case in CASES:
    everything.update(run(*case))
save("tests/golden/layers.safetensors", everything)
