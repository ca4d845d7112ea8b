"""When does each action of a schedule begin, if nothing is late? Needs no ranks: orders are enough.

`from timetable import idle, timetable`
"""

Action = tuple[int, str, int]  # number of a stage, "F", "B", "I" or "W", number of a micro-batch
Span = tuple[Action, float, float]  # an action, its begin and its end

# Units of work. I and W are the two halves of a backward pass: for the input, for the weights.
COSTS = {"F": 1, "B": 2, "I": 1, "W": 1}


def before(action: Action) -> list[Action]:
    """The actions of other stages that may be the ones which this action waits for."""
    stage, kind, part = action
    if kind == "F":
        return [(stage - 1, "F", part)]
    if kind in ("B", "I"):
        following = stage + 1
        return [(following, "B", part), (following, "I", part)]
    return []


def timetable(orders: list[list[Action]], sizes: list[float]) -> list[list[Span]]:
    """Begin and end of every action, for each rank's order.

    `sizes` holds what a forward pass of each stage costs. ValueError if the ranks wait for each
    other in a circle.
    """
    wanted = set()
    for order in orders:
        wanted.update(order)
    ends: dict[Action, float] = {}
    spans: list[list[Span]] = [[] for _ in orders]
    moved = True
    while moved:
        moved = False
        for order, own in zip(orders, spans, strict=True):
            while len(own) < len(order):
                action = order[len(own)]
                needs = [each for each in before(action) if each in wanted]
                if any(each not in ends for each in needs):
                    break  # somebody else comes first
                stage, kind, _ = action
                arrivals = [ends[each] for each in needs]
                free = own[-1][2] if own else 0
                begin = max([free, *arrivals])
                end = begin + sizes[stage] * COSTS[kind]
                ends[action] = end
                own.append((action, begin, end))
                moved = True
    if len(ends) < len(wanted):
        raise ValueError("these ranks wait for each other")
    return spans


def idle(spans: list[list[Span]]) -> float:
    """The bubble: which share of the time, from the first begin to the last end, nobody uses."""
    ends = []
    lengths = []
    for own in spans:
        for _, begin, end in own:
            ends.append(end)
            lengths.append(end - begin)
    all_time = len(spans) * max(ends)
    return 1 - sum(lengths) / all_time
