from analyze.made import made
from paceline.analyze.repeats import Group, group_names, name_without
from paceline.present.configurations import configuration_names


def test_a_configuration_is_named_by_the_settings_in_which_it_differs() -> None:
    groups = [Group((made(batch=1, workers=1),)), Group((made(batch=2, workers=2, layout="p w"),))]
    assert group_names(groups) == ["'pw' batch 1", "'p w' batch 2"]
    assert name_without(groups[0], groups, "batch") == "'pw'"


def test_a_single_configuration_is_named_by_its_main_settings() -> None:
    assert group_names([Group((made(strategy="ps-async", batch=1, workers=1),))]) == ["torch ps-async 'pw' batch 1"]


def test_settings_that_are_not_set_are_left_out_unless_none_is_set() -> None:
    def group(**settings: object) -> Group:
        return Group((made(settings={"stop": ["steps=5"], **settings}),))

    assert group_names([group(lr=0.1), group(lr=None, momentum=0.9)]) == ["lr 0.1", "momentum 0.9"]
    assert group_names([group(lr=0.1), group(lr=None)]) == ["lr 0.1", "lr -"]


def test_a_layout_is_left_out_if_it_only_follows_from_the_strategy() -> None:
    both = [{"strategy": "ps-sync", "layout": "pw w"}, {"strategy": "allreduce", "layout": "w w"}]
    assert configuration_names(both, [2, 2]) == ["ps-sync", "allreduce"]
    assert configuration_names(both, [2, 3]) == ["ps-sync 'pw w'", "allreduce 'w w'"]
    same_strategy = [{"layout": "pw w"}, {"layout": "p w w"}]
    assert configuration_names(same_strategy, [2, 2]) == ["'pw w'", "'p w w'"]
