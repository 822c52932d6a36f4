"""Cells of tests that repeat on another engine or layout what quicker ones show: only the whole suite has them."""

_N_TIMES_B = "test_comparability.py::test_n_workers_with_batch_b_give_what_one_gives_with_n_times_b"
CELLS = (
    "test_cells.py::test_the_same_global_batch_gives_the_same_loss_on_one_two_and_three_workers",
    "test_cells.py::test_a_cell_trains[alexnet:cifar tensorflow ps-async]",
    "test_cells.py::test_a_cell_trains[spatial-transformer:small tensorflow ps-sync]",
    "test_cells.py::test_a_cell_trains[autoencoder:large tensorflow ps-sync]",
    "test_cells.py::test_lenet_on_two_workers_is_lenet_on_one[allreduce-w w-tensorflow]",
    "test_cells.py::test_lenet_on_two_workers_is_lenet_on_one[ps-sync-pw w-torch]",
    "test_cells.py::test_memory_and_messages_carry_the_same[sparse-logreg-ps-async-pw w]",
    "test_cells.py::test_memory_and_messages_carry_the_same[lenet-ps-async-pw w]",
    "test_cells.py::test_sparse_regression_on_two_workers_is_that_on_one[torch]",
    "test_cells.py::test_reading_examples_takes_little_of_a_step[alexnet:cifar-10-tensorflow]",
    "test_cells.py::test_reading_examples_takes_little_of_a_step[lenet-100-tensorflow]",
    f"{_N_TIMES_B}[ps-sync-pw pw-2-tensorflow]",
    f"{_N_TIMES_B}[ps-sync-pw w-2-tensorflow]",
    f"{_N_TIMES_B}[allreduce-w w w-3-tensorflow]",
    f"{_N_TIMES_B}[allreduce-w w-2-torch]",
    f"{_N_TIMES_B}[ps-sync-pw w-2-torch]",
    "test_strategies.py::test_seconds_and_epochs_end_a_run[tensorflow]",
    "test_strategies.py::test_async_applies_exactly_the_asked_updates[pw pw-tensorflow]",
    "test_large_models.py::test_the_server_holds_less_than_three_times_the_model",
    "test_faults.py::test_a_killed_task_ends_the_run_and_is_named[tensorflow-ps-async-pw w-w1]",
    "test_faults.py::test_a_killed_task_ends_the_run_and_is_named[tensorflow-ps-sync-pw w-ps0]",
    "test_recovery.py::test_backup_workers_spare_the_others_the_wait_for_a_slow_one",
    "test_recovery.py::test_a_worker_of_an_asynchronous_run_comes_back[p w w-w0-memory]",
    "test_recovery.py::test_all_go_back_to_the_last_checkpoint[tensorflow-ps-sync-pw w-w1-600]",
    "test_resume.py::test_killed_and_resumed_is_as_never_killed[tensorflow-ps-sync-pw w-400]",
    "test_stuck.py::test_a_frozen_agent_is_given_up_with_its_tasks",
    "test_caused_faults.py::test_a_link_that_stays_cut_is_seen_within_ten_seconds_and_nobody_hangs",
    "test_caused_faults.py::test_a_frozen_host_of_tensorflow_holds_everyone_up_until_it_thaws",
    "test_live.py::test_elsewhere_there_is_a_plain_line_every_few_seconds",
    "test_board.py::test_what_is_not_training_has_no_loss[tensorflow]",
)


def is_one(node: str) -> bool:
    return node.endswith(CELLS)
