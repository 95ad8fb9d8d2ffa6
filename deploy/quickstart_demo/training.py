"""Trains a small network on handwritten digits twice: its pooling layer here, and on the server."""

import sklearn.datasets
import torch

import aclnn_client.torch

STEPS = 60
BATCH = 64
# 8x8 pooled to 3x3: windows overlap, so that gradients meet.
POOLED = (3, 3)


class Network(torch.nn.Module):
    """Convolution, pooling, one linear layer."""

    def __init__(self, pooling):
        super().__init__()
        self.convolution = torch.nn.Conv2d(1, 16, 3, padding=1)
        self.pooling = pooling
        self.linear = torch.nn.Linear(16 * POOLED[0] * POOLED[1], 10)

    def forward(self, images):
        features = self.pooling(torch.relu(self.convolution(images)))
        return self.linear(features.flatten(1))


def train(pooling, images, labels):
    """The network after STEPS steps from the same start, and its losses."""
    torch.manual_seed(1)
    network = Network(pooling)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.3, momentum=0.9)
    losses = []
    for step in range(STEPS):
        first = step * BATCH % (len(images) - BATCH)
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(network(images[first:first + BATCH]), labels[first:first + BATCH])
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return network, losses


def run(client, address, root, output):
    """True if every parameter of the two networks has the same bits."""
    digits = sklearn.datasets.load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    print(f"training     {len(images)} handwritten digits, {STEPS} steps of {BATCH}, pooling 8x8 to 3x3 on the server")
    remote, losses = train(aclnn_client.torch.AdaptiveMaxPool2d(POOLED, client=client), images, labels)
    local, _ = train(torch.nn.AdaptiveMaxPool2d(POOLED), images, labels)
    pairs = list(zip(remote.parameters(), local.parameters()))
    same = all(torch.equal(mine.view(torch.int32), other.view(torch.int32)) for mine, other in pairs)
    with torch.no_grad():
        accuracy = (remote(images).argmax(1) == labels).float().mean().item()
    print(f"training     loss {losses[0]:.3f} -> {losses[-1]:.3f}, {accuracy:.1%} right, "
          f"{sum(mine.numel() for mine, _ in pairs)} parameters "
          f"{'have the bits' if same else 'DIFFER from those'} of local fp32 torch")
    return same and losses[-1] < losses[0]
