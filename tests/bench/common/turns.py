"""Contestants take turns, so that what else the machine does meets all of them."""


def turns(names, rounds):
    """For every round the names in their order of that round: nobody always follows the same one."""
    names = list(names)
    for number in range(rounds):
        turn = number * len(names) // rounds
        yield names[turn:] + names[:turn]
