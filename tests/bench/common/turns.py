"""Contestants take turns, so that what else the machine does meets all of them."""


def _from_both_ends(count):
    """0, 1, count - 1, 2, count - 2, ...: shifted by 0 to count - 1, an even count has each pair side by side once."""
    order = [0]
    low, high = 1, count - 1
    while low <= high:
        order.append(low)
        if low < high:
            order.append(high)
        low, high = low + 1, high - 1
    return order


def turns(names, rounds):
    """For every round the names in their order of that round.

    Whoever comes first finds caches full of another's data, and whoever follows its own kind finds them warm: so over
    as many rounds as there are names (twice as many if they are odd) each follows every other equally often.
    """
    names = list(names)
    count = len(names)
    base = _from_both_ends(count) if names else []
    for number in range(rounds):
        order = [names[(place + number) % count] for place in base]
        yield order[::-1] if count % 2 == 1 and number // count % 2 == 1 else order
