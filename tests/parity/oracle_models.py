"""The models of trainer/model, written in PyTorch: the oracle of the parity tests.

Modules are made in the order in which Muster draws random numbers, so that the same seed gives the
same bits. Parameter names are those of the export.
"""
import math

import torch
import torch.nn.functional as F
from torch import nn

ACTIVATIONS = {"relu": F.relu, "gelu": F.gelu, "tanh": torch.tanh, "sigmoid": torch.sigmoid}


class Dense(nn.Module):
    """tabular (embeddings) and mlp (one-hot): {"hidden": [...], "activation": ...}."""

    def __init__(self, config, shape, one_hot):
        super().__init__()
        self.one_hot, self.sizes = one_hot, shape["category_sizes"]
        self.activation = ACTIVATIONS[config["activation"]]
        self.regression = shape["task"] == 1
        width = shape["number_columns"]
        self.embedding = nn.ModuleDict()
        for name, size in zip(shape["category_names"], self.sizes):
            if one_hot:
                width += size
            else:
                embedding_width = min(50, (size + 1) // 2 + 1)
                self.embedding[name] = nn.Embedding(size, embedding_width)
                width += embedding_width
        widths = [width, *config["hidden"], 1 if self.regression else shape["classes"]]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in zip(widths, widths[1:]))

    def forward(self, batch):
        columns = batch["categories"].unbind(1) if self.sizes else []
        if self.one_hot:
            parts = [F.one_hot(c, n).float() for c, n in zip(columns, self.sizes)]
        else:
            parts = [layer(c) for layer, c in zip(self.embedding.values(), columns)]
        x = torch.cat([*parts, batch["numbers"]], 1)
        for layer in self.layers[:-1]:
            x = self.activation(layer(x))
        x = self.layers[-1](x)
        if self.regression:
            return F.mse_loss(x.squeeze(1), batch["values"])
        return F.cross_entropy(x, batch["classes"])


class Conv1D(nn.Module):
    """Hugging Face's: y = x W + b, with W as [in, out]."""

    def __init__(self, outputs, inputs, deviation):
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs).normal_(0, deviation))
        self.bias = nn.Parameter(torch.zeros(outputs))

    def forward(self, x):
        flat = torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight)
        return flat.view(*x.shape[:-1], -1)


class Attention(nn.Module):
    def __init__(self, width, heads, residual):
        super().__init__()
        self.heads = heads
        self.c_attn = Conv1D(3 * width, width, 0.02)
        self.c_proj = Conv1D(width, width, residual)

    def forward(self, x):
        split = [
            t.unflatten(2, (self.heads, -1)).transpose(1, 2)
            for t in self.c_attn(x).chunk(3, dim=2)
        ]
        y = F.scaled_dot_product_attention(*split, is_causal=True)
        return self.c_proj(y.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, width, residual):
        super().__init__()
        self.c_fc = Conv1D(4 * width, width, 0.02)
        self.c_proj = Conv1D(width, 4 * width, residual)

    def forward(self, x):
        return self.c_proj(F.gelu(self.c_fc(x), approximate="tanh"))


class Block(nn.Module):
    def __init__(self, width, heads, residual):
        super().__init__()
        self.ln_1 = nn.LayerNorm(width)
        self.attn = Attention(width, heads, residual)
        self.ln_2 = nn.LayerNorm(width)
        self.mlp = Mlp(width, residual)

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp(self.ln_2(x))


class Transformer(nn.Module):
    def __init__(self, config, shape):
        super().__init__()
        width = config["hidden"]
        residual = 0.02 / math.sqrt(2 * config["layers"])
        self.wte = nn.Embedding.from_pretrained(
            torch.empty(shape["vocabulary_size"], width).normal_(0, 0.02), freeze=False)
        self.wpe = nn.Embedding.from_pretrained(
            torch.empty(shape["sequence_length"], width).normal_(0, 0.02), freeze=False)
        self.h = nn.ModuleList(
            Block(width, config["heads"], residual) for _ in range(config["layers"]))
        self.ln_f = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.wte(tokens) + self.wpe(torch.arange(tokens.size(1)))
        for block in self.h:
            x = block(x)
        return self.ln_f(x)


class Gpt2(nn.Module):
    def __init__(self, config, shape):
        super().__init__()
        self.transformer = Transformer(config, shape)
        if not config.get("tieWeights", True):
            self.lm_head = nn.Module()
            self.lm_head.weight = nn.Parameter(
                torch.empty(shape["vocabulary_size"], config["hidden"]).normal_(0, 0.02))

    def forward(self, batch):
        tokens = batch["tokens"]
        owner = self.lm_head if hasattr(self, "lm_head") else self.transformer.wte
        logits = self.transformer(tokens[:, :-1]) @ owner.weight.T
        return F.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())


def build(model, shape, seed):
    torch.manual_seed(seed)
    if "tabular" in model:
        return Dense(model["tabular"], shape, one_hot=False)
    if model["name"] == "mlp":
        return Dense(model["config"], shape, one_hot=True)
    return Gpt2(model["config"], shape)
