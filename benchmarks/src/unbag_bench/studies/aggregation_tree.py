"""One pass over rows on many machines: how long its sums take up a tree, on paper and simulated.

The driver sends coefficients down a tree of fan-in k, every machine sums losses and gradients over
its share of the rows, and the sums go up the same tree. A node sends or receives one message after
the other, each of which takes it

    s = (handling) + (bytes)/(bandwidth)

and arrives a latency a later. Without stragglers all machines work equally long, and with s↓, s↑
for the two directions and k_l children on level l of the path that is the last to end,

    T = T_driver + n·t/M + Σ_l [2a + max(s↓ + k_l·s↑, k_l·s↓ + s↑)],

since messages to the last child leave k_l·s↓ after those to the first, by when sums of the first
are on their way. With stragglers, whose times are lognormal with mean n·t/M, that term becomes the
expected largest of M. The simulation follows every message.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray
from scipy.special import ndtri

from unbag_bench.study import Row, Study, table

ROW_SECONDS = 40e-9
FAN_INS = (2, 8, 64)
MACHINES = (10, 100, 1_000, 10_000, 100_000)
STRAGGLING = 0.2

# Tasks of a pass for each machine of 16 threads in Dask, and seconds of the one scheduler for each.
# Assumed.
TASKS_PER_MACHINE, TASK_SECONDS = 4 * 16, 3e-4


@dataclass(frozen=True)
class Cluster:
    """What a pass needs, and what machines and network give.

    Attributes
    ----------
    n_rows : float
    row_seconds : float
        Time of one machine for one row: t.
    sum_bytes, coefficient_bytes : float
        Of the messages up and down.
    latency, handling : float
        Seconds a message is on its way, and those a node is busy with it apart from its bytes.
    bandwidth : float
        Bytes per second.
    driver_seconds : float
        For the driver's part of an iteration.
    straggling : float
        Standard deviation of the logarithm of a machine's time.
    """

    n_rows: float
    row_seconds: float
    sum_bytes: float
    coefficient_bytes: float
    latency: float = 1e-4
    handling: float = 5e-5
    bandwidth: float = 1.25e9
    driver_seconds: float = 2e-3
    straggling: float = 0.0

    @property
    def up(self) -> float:
        """Seconds a node is busy with one message up."""
        return self.handling + self.sum_bytes / self.bandwidth

    @property
    def down(self) -> float:
        """Seconds a node is busy with one message down."""
        return self.handling + self.coefficient_bytes / self.bandwidth

    def work(self, n_machines: int) -> float:
        """Mean seconds of a machine: n·t/M."""
        return self.n_rows * self.row_seconds / n_machines


def levels(n_machines: int, fan_in: int) -> list[int]:
    """Nodes on every level, from the machines to the driver."""
    numbers = [n_machines]
    while numbers[-1] > 1:
        numbers.append(-(-numbers[-1] // fan_in))
    return numbers


def draw_work(
    cluster: Cluster, n_machines: int, repeats: int, rng: Generator
) -> NDArray[np.float64]:
    """Seconds of every machine, for several passes."""
    sigma = cluster.straggling
    noise = sigma * rng.standard_normal((repeats, n_machines)) - sigma**2 / 2
    return cluster.work(n_machines) * np.exp(noise)


def simulate(cluster: Cluster, work: NDArray[np.float64], fan_in: int) -> NDArray[np.float64]:
    """Seconds of passes in which machines work as long as given: (repeats, machines)."""
    numbers = levels(work.shape[1], fan_in)
    at = np.full((len(work), 1), cluster.driver_seconds)
    for n_children in numbers[-2::-1]:
        parent, place = np.divmod(np.arange(n_children), fan_in)
        at = at[:, parent] + (place + 1) * cluster.down + cluster.latency
    at = at + work
    # the j-th message to arrive waits for those before it; what comes after it takes k − j more
    behind = cluster.up * np.arange(fan_in, 0, -1)
    for n_parents in numbers[1:]:
        arrival = np.full((len(work), n_parents * fan_in), -np.inf)
        arrival[:, : at.shape[1]] = at + cluster.latency
        groups = np.sort(arrival.reshape(len(work), n_parents, fan_in), axis=2)
        at = (groups + behind).max(axis=2)
    return at[:, 0]


def closed_form(cluster: Cluster, n_machines: int, fan_in: int) -> float:
    """T of the formula above."""
    numbers = levels(n_machines, fan_in)
    children = np.minimum(fan_in, numbers[:-1])
    up, down = cluster.up, cluster.down
    tree = np.maximum(down + children * up, children * down + up) + 2 * cluster.latency
    return cluster.driver_seconds + slowest(cluster, n_machines) + float(tree.sum())


def slowest(cluster: Cluster, n_machines: int) -> float:
    """Expected time of the slowest machine, by Blom's formula for the largest of M."""
    sigma = cluster.straggling
    largest = ndtri((n_machines - 0.375) / (n_machines + 0.25))
    return cluster.work(n_machines) * float(np.exp(sigma * largest - sigma**2 / 2))


def through_one_scheduler(cluster: Cluster, n_machines: int) -> float:
    """T where one process hands out every task, as in Dask."""
    tasks = n_machines * TASKS_PER_MACHINE * TASK_SECONDS
    return cluster.driver_seconds + slowest(cluster, n_machines) + tasks


def best_fan_in(cluster: Cluster, n_machines: int) -> int:
    return min(range(2, 129), key=lambda k: closed_form(cluster, n_machines, k))


def fastest(cluster: Cluster, fan_in: int) -> tuple[int, float]:
    """Machines with which a pass takes least, and how long it takes."""
    times = {M: closed_form(cluster, M, fan_in) for M in _grid()}
    best = min(times, key=times.__getitem__)
    return best, times[best]


def most_machines(cluster: Cluster, fan_in: int, efficiency: float) -> int:
    """Machines up to which work takes this share of a pass."""
    return max(
        M for M in _grid() if cluster.work(M) >= efficiency * closed_form(cluster, M, fan_in)
    )


def _grid() -> list[int]:
    found: list[int] = np.unique(np.geomspace(1, 1e8, 2_000).astype(int)).tolist()
    return found


def internet_scale(n_columns: int, straggling: float = 0.0) -> Cluster:
    """10¹¹ rows × 20 in two classes, 16 cores a machine, so many fits side by side.

    A core is taken to need 40 ns for a row of one fit, and of several as much for each.
    """
    n_features, n_classes = 20, 2
    return Cluster(
        n_rows=1e11,
        row_seconds=ROW_SECONDS * n_columns / 16,
        sum_bytes=8 * n_columns * n_classes * (n_features + 2),
        coefficient_bytes=8 * n_columns * (n_features + 1),
        straggling=straggling,
    )


CASES = {
    "One fit": internet_scale(1),
    "One fit, with stragglers": internet_scale(1, STRAGGLING),
    "A search of 66 columns": internet_scale(66),
}


def measure(case: str, repeats: int) -> list[Row]:
    """Seconds of a pass by machines and fan-in: simulated, and by the formula."""
    cluster, rng = CASES[case], np.random.default_rng(0)
    rows = []
    for M in MACHINES:
        work = draw_work(cluster, M, repeats if cluster.straggling else 1, rng)
        rows.append(
            {
                "machines": M,
                "passes": len(work),
                "work": cluster.work(M),
                "simulated": [float(simulate(cluster, work, k).mean()) for k in FAN_INS],
                "formula": [closed_form(cluster, M, k) for k in FAN_INS],
                "best fan-in": best_fan_in(cluster, M),
                "one scheduler": through_one_scheduler(cluster, M),
            }
        )
    return rows


def table_of(rows: list[Row]) -> list[str]:
    header = ["machines", "work alone", *(f"k = {k}" for k in FAN_INS), "best k", "one scheduler"]
    lines = [
        [
            f"{row['machines']:,}",
            f"{row['work']:.4g}",
            *(
                f"{seen:.4g} ({said:.4g})"
                for seen, said in zip(row["simulated"], row["formula"], strict=True)
            ),
            str(row["best fan-in"]),
            f"{row['one scheduler']:.4g}",
        ]
        for row in rows
    ]
    return table(header, lines)


def draw_figure(_: list[Row], path: Path) -> None:
    """Time of a pass against machines: fan-ins, stragglers, one scheduler and the ideal."""
    from matplotlib.figure import Figure

    cluster = internet_scale(1)
    slow, rng = replace(cluster, straggling=STRAGGLING), np.random.default_rng(0)
    machines = np.unique(np.geomspace(10, 1e6, 41).astype(int)).tolist()
    figure = Figure(figsize=(7, 4.6), layout="constrained")
    axes = figure.subplots()
    axes.plot(machines, [cluster.work(M) for M in machines], "k:", lw=1.2, label="ideal: work / M")
    for k, colour in zip(FAN_INS, ("C0", "C2", "C1"), strict=True):
        times = [simulate(cluster, draw_work(cluster, M, 1, rng), k)[0] for M in machines]
        axes.plot(machines, times, color=colour, lw=1.6, label=f"tree of fan-in {k}")
    times = [simulate(slow, draw_work(slow, M, 5, rng), 8).mean() for M in machines]
    label = f"fan-in 8, stragglers (σ = {STRAGGLING})"
    axes.plot(machines, times, color="C2", lw=1.2, ls="--", label=label)
    times = [through_one_scheduler(cluster, M) for M in machines]
    axes.plot(machines, times, color="C3", lw=1.6, ls="-.", label="one scheduler, 64 tasks each")
    axes.set(xscale="log", yscale="log", ylim=(2e-4, 400))
    axes.set(xlabel="machines of 16 cores", ylabel="seconds per iteration")
    axes.set_title("One fit of 10¹¹ rows × 20 columns", fontsize=11)
    axes.grid(alpha=0.3)
    axes.legend(frameon=False, fontsize=9, loc="lower left")
    figure.savefig(path, dpi=110)


def page(rows: list[Row]) -> list[str]:
    """What the formula says in words, then the tables."""
    one, slow, many = CASES.values()
    scheduler = np.sqrt(one.n_rows * one.row_seconds / (TASKS_PER_MACHINE * TASK_SECONDS))
    most = {k: most_machines(one, k, 0.8) for k in FAN_INS}
    best, least = fastest(one, 8)
    words = f"""\
10¹¹ rows × 20 columns in two classes, on machines of 16 cores. Assumed, not measured:
{1e9 * ROW_SECONDS:.0f} ns a row and core, {1e3 * TASK_SECONDS:.1f} ms of Dask's scheduler a task,
{1e6 * one.latency:.0f} µs of latency, {8e-9 * one.bandwidth:.0f} Gbit/s,
{1e6 * one.handling:.0f} µs to handle a message,
{1e3 * one.driver_seconds:.0f} ms for the driver,
cores that do not slow each other down. Seconds of one pass, simulated, with those of the formula in
brackets; *one scheduler* is Dask's way, a process that hands out {TASKS_PER_MACHINE} tasks a
machine.

- Work is 80% of a pass or more up to {most[2]:,} machines at fan-in 2, {most[8]:,} at 8 and
  {most[64]:,} at 64: sums are small, and the tree is not a bottleneck up to ten thousand machines.
  Shortest of all is a pass of {1e3 * least:.1f} ms, with {best / 1e6:.1f} million machines at
  fan-in 8.
- The fan-in matters little; 5 to 8 is best, and Dask's sums here use 8.
- One scheduler is the bottleneck: its passes are shortest with {scheduler:.0f} machines, at
  {through_one_scheduler(one, round(scheduler)):.1f} s.
- Stragglers cost more than the tree: with σ = {STRAGGLING} and 1,000 machines all wait for one that
  takes {slowest(slow, 1_000) / slow.work(1_000):.2f} times the mean, whatever the fan-in. The
  formula is then too long where the tree counts: sums of others are in by the time of the last.
- A search over 5 folds and 11 penalties (66 columns) has messages of
  {many.sum_bytes / 1e3:.0f} kB in place of {one.sum_bytes:.0f} bytes and 66 times the work, so that
  it can use more machines.

![Seconds per iteration against machines](aggregation_tree.png)"""
    lines = [words]
    for case, cluster in CASES.items():
        own = [row for row in rows if row["case"] == case]
        mean = f" (σ = {STRAGGLING}, mean of {own[0]['passes']} passes)"
        heading = f"## {case}{mean if cluster.straggling else ''}"
        lines += ["", heading, "", *table_of(own)]
    return lines


STUDY = Study(
    name="aggregation_tree",
    title="Sums of a pass over rows on many machines",
    keys=["case"],
    tasks=lambda options: [{"case": case, "repeats": options.repeats} for case in CASES],
    measure=measure,
    page=page,
    options={"--repeats": {"type": int, "default": 100, "help": "passes with stragglers"}},
    figure=draw_figure,
)
