"""The networks that bench/peer.py and bench/peer_gpu.py train."""

import torch
import torch.nn as nn
import torch.nn.functional as F


class SimpleCnn(nn.Module):
    """The network of PyTorch's CIFAR-10 tutorial."""

    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 6, 5)
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(6, 16, 5)
        self.fc1 = nn.Linear(16 * 5 * 5, 120)
        self.fc2 = nn.Linear(120, 84)
        self.fc3 = nn.Linear(84, 10)

    def forward(self, x):
        x = self.pool(F.relu(self.conv1(x)))
        x = self.pool(F.relu(self.conv2(x)))
        x = torch.flatten(x, 1)
        return self.fc3(F.relu(self.fc2(F.relu(self.fc1(x)))))


class Block(nn.Module):
    """Two convolutions and a shortcut (He et al. 2015)."""

    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(c_out)
        self.conv2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(c_out)
        self.shortcut = nn.Sequential()
        if stride != 1 or c_in != c_out:
            self.shortcut = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.shortcut(x))


def resnet18():
    """As for CIFAR: a 3x3 convolution first, no pooling after it."""
    layers = [nn.Conv2d(3, 64, 3, 1, 1, bias=False), nn.BatchNorm2d(64), nn.ReLU()]
    c_in = 64
    for c_out, stride in ((64, 1), (128, 2), (256, 2), (512, 2)):
        layers += [Block(c_in, c_out, stride), Block(c_out, c_out, 1)]
        c_in = c_out
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 10))


class TransformerBlock(nn.Module):
    """Causal attention with four heads, and two linear layers, each behind a normalisation (Radford et al. 2019)."""

    def __init__(self, features=32, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(features), nn.LayerNorm(features)
        self.qkv, self.out = nn.Linear(features, 3 * features), nn.Linear(features, features)
        self.up, self.down = nn.Linear(features, 4 * features), nn.Linear(4 * features, features)

    def attention(self, x):
        n, length, features = x.shape
        q, k, v = self.qkv(x).view(n, length, 3, self.heads, features // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(n, length, features))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class CharGpt(nn.Module):
    """64 tokens of 128 kinds, 32 features, two blocks; the embedding is the weight of the last layer, too."""

    def __init__(self):
        super().__init__()
        self.token = nn.Embedding(128, 32)
        self.position = nn.Parameter(torch.normal(0, 0.02, (64, 32)))
        self.blocks = nn.Sequential(TransformerBlock(), TransformerBlock())
        self.norm, self.head = nn.LayerNorm(32), nn.Linear(32, 128, bias=False)
        self.head.weight = self.token.weight

    def forward(self, tokens):
        return self.head(self.norm(self.blocks(self.token(tokens) + self.position))).flatten(0, 1)


def convolutions(c_in, c_out):
    return nn.Sequential(
        *(nn.Conv2d(c_in, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()),
        *(nn.Conv2d(c_out, c_out, 3, padding=1), nn.BatchNorm2d(c_out), nn.ReLU()),
    )


class UNet(nn.Module):
    """Two levels down and up (Ronneberger, Fischer, Brox 2015), for three classes of pixels."""

    def __init__(self):
        super().__init__()
        self.down1, self.down2, self.middle = convolutions(3, 8), convolutions(8, 16), convolutions(16, 32)
        self.up2, self.join2 = nn.ConvTranspose2d(32, 16, 2, 2), convolutions(32, 16)
        self.up1, self.join1 = nn.ConvTranspose2d(16, 8, 2, 2), convolutions(16, 8)
        self.out = nn.Conv2d(8, 3, 1)

    def forward(self, x):
        fine = self.down1(x)
        coarse = self.down2(F.max_pool2d(fine, 2))
        x = self.middle(F.max_pool2d(coarse, 2))
        x = self.join2(torch.cat([self.up2(x), coarse], 1))
        return self.out(self.join1(torch.cat([self.up1(x), fine], 1)))


NETWORKS = {"simplecnn": SimpleCnn, "resnet18": resnet18, "char_gpt": CharGpt, "unet": UNet}


def batch_for(model, batch):
    """Inputs and classes for a step of training: of pictures, of each pixel, or of each token."""
    if model == "char_gpt":
        return torch.randint(0, 128, (batch, 64)), torch.randint(0, 128, (batch * 64,))
    classes, places = (3, (32, 32)) if model == "unet" else (10, ())
    return torch.rand(batch, 3, 32, 32), torch.randint(0, classes, (batch, *places))
