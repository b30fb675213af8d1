"""Workers of a torch DataLoader that are forked while a Worker is open work, and end normally."""

from hosted import *


class Noise(torch.utils.data.Dataset):
    def __len__(self):
        return 40

    def __getitem__(self, index):
        return torch.full((3,), float(index)), os.getpid()


click_files()
with log() as path, simurgh.torch.Worker("clicks.yaml") as worker:
    net = Net(worker.inputs)
    worker.track(net=net)
    processes, numbers, workers = set(), [], []
    noise = iter(torch.utils.data.DataLoader(Noise(), batch_size=2, num_workers=2, multiprocessing_context="fork"))
    for batch in worker:
        logits = net(batch.dense, batch.embeddings)
        loss_of(logits, batch).backward()
        if batch.step < 20:
            workers = workers or list(noise._workers)
            values, ids = next(noise)
            numbers += values[:, 0].tolist()
            processes.update(ids.tolist())
        worker.finish(batch, logits)
    expect(next(noise, None) is None, "the loader ends")
    for process in workers:
        process.join(60)
    codes = [process.exitcode for process in workers]
expect(codes == [0, 0], f"forked processes end normally: {codes}")
expect(sorted(numbers) == list(range(40)) and len(processes) == 2 and os.getpid() not in processes,
       f"forked processes gave all numbers: {numbers}, {processes}")
expect("test_auc" in worker.result and batch.step == 39, f"training ends: {worker.result}")
expect("not closed" not in path.read_text() and " error " not in path.read_text(), path.read_text())
