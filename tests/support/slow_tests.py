"""Tests that are marked slow because a quicker test checks the same on another engine or layout.

`make test` skips them, `make test-all` runs them.
"""

_N_TIMES_B = "test_comparability.py::test_n_workers_with_batch_b_equal_one_worker_with_batch_n_times_b"
SLOW_TESTS = (
    "test_cells.py::test_the_same_global_batch_gives_the_same_loss_on_one_two_and_three_workers",
    "test_cells.py::test_a_workload_trains_with_engine_and_strategy[alexnet:cifar tensorflow ps-async]",
    "test_cells.py::test_a_workload_trains_with_engine_and_strategy[spatial-transformer:small tensorflow ps-sync]",
    "test_cells.py::test_a_workload_trains_with_engine_and_strategy[autoencoder:large tensorflow ps-sync]",
    "test_cells.py::test_lenet_on_two_workers_gives_the_loss_of_one_worker[allreduce-w w-tensorflow]",
    "test_cells.py::test_lenet_on_two_workers_gives_the_loss_of_one_worker[ps-sync-pw w-torch]",
    "test_cells.py::test_memory_and_tcp_transports_give_the_same_loss[sparse-logreg-ps-async-pw w]",
    "test_cells.py::test_memory_and_tcp_transports_give_the_same_loss[lenet-ps-async-pw w]",
    "test_cells.py::test_sparse_regression_on_two_workers_gives_the_loss_of_one_worker[torch]",
    "test_cells.py::test_reading_examples_takes_less_than_5_percent_of_a_step[alexnet:cifar-10-tensorflow]",
    "test_cells.py::test_reading_examples_takes_less_than_5_percent_of_a_step[lenet-100-tensorflow]",
    f"{_N_TIMES_B}[ps-sync-pw pw-2-tensorflow]",
    f"{_N_TIMES_B}[ps-sync-pw w-2-tensorflow]",
    f"{_N_TIMES_B}[allreduce-w w w-3-tensorflow]",
    f"{_N_TIMES_B}[allreduce-w w-2-torch]",
    f"{_N_TIMES_B}[ps-sync-pw w-2-torch]",
    "test_strategies.py::test_stop_rules_seconds_and_epochs_end_a_run[tensorflow]",
    "test_strategies.py::test_async_applies_exactly_the_requested_updates[pw pw-tensorflow]",
    "test_large_models.py::test_server_memory_is_below_three_times_the_model",
    "test_faults.py::test_killed_task_ends_the_run_and_is_named[tensorflow-ps-async-pw w-w1]",
    "test_faults.py::test_killed_task_ends_the_run_and_is_named[tensorflow-ps-sync-pw w-ps0]",
    "test_recovery.py::test_backup_workers_avoid_waiting_for_a_slow_worker",
    "test_recovery.py::test_killed_worker_of_an_asynchronous_run_is_restarted[p w w-w0-memory]",
    "test_recovery.py::test_all_tasks_restart_from_the_last_checkpoint[tensorflow-ps-sync-pw w-w1-600]",
    "test_resume.py::test_resumed_run_gives_the_same_parameters_as_an_uninterrupted_one[tensorflow-ps-sync-pw w-400]",
    "test_stuck.py::test_frozen_agent_ends_the_run",
    "test_caused_faults.py::test_link_that_stays_cut_ends_the_run_within_ten_seconds",
    "test_caused_faults.py::test_frozen_host_of_a_synchronous_tensorflow_run_stops_all_workers",
    "test_faults.py::test_killed_task_ends_the_run_and_is_named[torch-ps-async-pw w w-w1]",
    "test_faults.py::test_killed_task_ends_the_run_and_is_named[torch-ps-sync-pw w w-w2]",
    "test_faults.py::test_killed_task_ends_the_run_and_is_named[torch-allreduce-w w w-w1]",
    "test_recovery.py::test_workers_continue_with_a_restarted_server[logreg-ps-async-p w w-ps0-memory-8000]",
    "test_cells.py::test_lenet_on_two_workers_gives_the_loss_of_one_worker[ps-sync-pw w-tensorflow]",
    "test_cells.py::test_memory_and_tcp_transports_give_the_same_loss[sparse-logreg-ps-sync-pw pw]",
    "test_cells.py::test_sparse_regression_on_two_workers_gives_the_loss_of_one_worker[tensorflow]",
    "test_cells.py::test_a_workload_trains_with_engine_and_strategy[alexnet:cifar torch allreduce]",
    "test_cells.py::test_a_workload_trains_with_engine_and_strategy[autoencoder:small tensorflow allreduce]",
    "test_user_workload.py::test_a_torch_module_trains_with_every_strategy[ps-sync]",
    "test_user_workload.py::test_a_keras_model_trains_alone_and_with_a_parameter_server[ps-async]",
    "test_user_workload.py::test_a_keras_model_trains_with_allreduce_and_writes_checkpoints[w w]",
    "test_user_workload.py::test_a_model_of_layers_trains_on_every_engine[ps-async-tensorflow]",
    "test_matmul.py::test_the_trace_and_the_fetched_bytes_are_right[tensorflow-3-colocated]",
    "test_matmul.py::test_the_trace_and_the_fetched_bytes_are_right[tensorflow-2-scattered]",
    "test_matmul.py::test_workers_stop_together_after_a_time[tensorflow]",
    "test_live_terminal.py::test_without_a_terminal_there_are_plain_lines_for_progress_and_faults",
    "test_tensorboard_writer.py::test_what_is_not_training_has_no_loss[tensorflow]",
)


def is_slow(node_id: str) -> bool:
    """Whether the test with this pytest id is in the list."""
    return node_id.endswith(SLOW_TESTS)
