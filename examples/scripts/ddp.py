"""DistributedDataParallel with a DataLoader, evaluation and checkpoints: paceline launch --layout ww ddp.py"""

import argparse
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset, default_collate
from torch.utils.data.distributed import DistributedSampler


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--num-workers", type=int, default=0)
    parser.add_argument("--accumulate", type=int, default=1, help="micro-batches per optimizer step")
    parser.add_argument("--examples", type=int, default=2048)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--save", default="", help="where to write a checkpoint after each epoch")
    parser.add_argument("--slow-rank", type=int, default=-1, help="the rank that loads its data slowly")
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank = dist.get_rank()
    torch.manual_seed(1)
    data = TensorDataset(torch.randn(args.examples, 64), torch.randint(0, 10, (args.examples,)))

    def collate(items):
        if rank == args.slow_rank:
            time.sleep(0.02)
        return default_collate(items)

    sampler = DistributedSampler(data, seed=1)
    loader = DataLoader(
        data, batch_size=args.batch_size, sampler=sampler, num_workers=args.num_workers, collate_fn=collate
    )
    network = nn.Sequential(nn.Linear(64, args.width), nn.ReLU(), nn.Linear(args.width, 10))
    model = DistributedDataParallel(torch.compile(network) if args.compile else network)
    optimizer, loss_function = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss()

    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        for number, (inputs, labels) in enumerate(loader, 1):
            loss_of = lambda: loss_function(model(inputs), labels) / args.accumulate  # noqa: B023, E731
            if number % args.accumulate:
                with model.no_sync():
                    loss_of().backward()
                continue
            loss = loss_of()
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            if rank == 0 and number // args.accumulate <= 3:
                print(f"loss {loss.item() * args.accumulate:.6f}")
        model.eval()
        with torch.no_grad():
            right = sum((model(x).argmax(1) == y).sum().item() for x, y in DataLoader(data, batch_size=512))
        if rank == 0:
            print(f"epoch {epoch}: accuracy {right / args.examples:.3f}", flush=True)
            if args.save:
                torch.save(model.state_dict(), os.path.join(args.save, f"epoch-{epoch}.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
