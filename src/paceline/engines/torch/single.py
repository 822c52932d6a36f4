"""One worker by itself: the baseline."""

from paceline.engines.torch.network import Network
from paceline.train.batches import Images, Labels
from paceline.train.context import TaskContext
from paceline.train.strategy import Predictor, Step
from paceline.workloads.model import Parameters


class Single:
    def __init__(self, context: TaskContext) -> None:
        job = context.job
        self._recorder, self._lr = context.recorder, job.lr
        self._network = Network.ready(context.workload.model, job.seed, job.batch)
        self._updates = 0

    def start(self) -> bool:
        return True

    def step(self, x: Images, y: Labels) -> Step:
        with self._recorder.compute:
            loss = self._network.differentiate(x, y)
            self._network.descend(self._lr)
        self._updates += 1
        return Step(loss, self._updates)

    def stop_now(self, mine: bool, update: int) -> bool:
        return mine

    def finish(self) -> None:
        pass

    def predictor(self) -> Predictor:
        return self._network.predict

    def parameters(self) -> Parameters:
        return self._network.snapshot()

    def close(self) -> None:
        pass
