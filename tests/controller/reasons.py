"""Which test reaches what the status contract promises: a table that ``test_reasons`` checks.

Each name is a test on a real API server.
"""

from hetrl_operator.reasons import ConditionType, EventReason, Reason

CONDITIONS = {
    ConditionType.ACCEPTED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.PLANNED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.QUOTA_RESERVED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    ConditionType.RESOURCES_CREATED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.TRAINER_READY: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.ROLLOUT_READY: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.RUNNING: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.PROGRESSING: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.DEGRADED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.COMPLETE: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    ConditionType.SUSPENDED: "test_suspending_asks_for_a_checkpoint_before_anything_else_stops",
    ConditionType.FAILED: "test_more_restarts_than_allowed_fail_the_job",
}

REASONS = {
    Reason.VALID: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.INVALID_SPEC: "test_a_job_without_dimensions_is_not_accepted",
    Reason.PLAN_READY: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.PLANNING: "test_what_passes_within_moments_is_written_too",
    Reason.INFEASIBLE: "test_a_job_that_fits_nowhere_says_every_reason_and_makes_no_pods",
    Reason.FLEET_OCCUPIED: "test_a_second_job_waits_for_the_gpus_of_the_first",
    Reason.SOLVER_TIMEOUT: "test_a_planner_in_trouble_is_told_and_asked_again",
    Reason.PLANNER_FAILED: "test_a_planner_in_trouble_is_told_and_asked_again",
    Reason.PLAN_NOT_FOUND: "test_a_plan_is_looked_at_edited_approved_and_run_by",
    Reason.PLAN_DOES_NOT_FIT: "test_a_plan_that_does_not_fit_says_by_which_field",
    Reason.WAITING_FOR_QUOTA: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    Reason.ADMITTED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    Reason.PREEMPTED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    Reason.QUEUED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    Reason.EVICTED: "test_kueue_says_why_a_job_stops",
    Reason.DEACTIVATED: "test_kueue_says_why_a_job_stops",
    Reason.QUOTA_RETURNED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    Reason.QUEUE_IGNORED: "test_a_label_that_means_nothing_is_said_to_mean_nothing",
    Reason.CHILDREN_APPLIED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.APPLYING: "test_what_passes_within_moments_is_written_too",
    Reason.CONFLICT: "test_somebody_elses_service_is_not_taken_over",
    Reason.FORBIDDEN: "test_an_object_that_is_refused_is_told_with_the_reason",
    Reason.QUOTA_EXCEEDED: "test_an_object_that_is_refused_is_told_with_the_reason",
    Reason.APPLY_FAILED: "test_an_object_that_is_refused_is_told_with_the_reason",
    Reason.ALL_READY: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.MIN_READY: "test_enough_rollouts_are_ready_though_not_all",
    Reason.STARTING: "test_a_trainer_that_is_not_ready_says_why",
    Reason.UNSCHEDULABLE: "test_a_rollout_that_no_node_takes_says_so",
    Reason.IMAGE_PULL_ERROR: "test_a_trainer_that_is_not_ready_says_why",
    Reason.CRASH_LOOP: "test_a_trainer_that_is_not_ready_says_why",
    Reason.NO_PODS: "test_pods_that_cannot_be_made_are_missed",
    Reason.TRAINING_IN_PROGRESS: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.NOT_READY: "test_a_trainer_that_is_not_ready_says_why",
    Reason.WAITING_FOR_STEP: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.STEP_ADVANCED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.STALLED: "test_a_job_without_steps_stalls_and_nothing_else_happens",
    Reason.SUSPENDED: "test_suspending_asks_for_a_checkpoint_before_anything_else_stops",
    Reason.SUSPENDING: "test_suspending_asks_for_a_checkpoint_before_anything_else_stops",
    Reason.RESUMED: "test_suspending_asks_for_a_checkpoint_before_anything_else_stops",
    Reason.DELETING: "test_a_deleted_job_stops_its_trainers_first_and_then_goes",
    Reason.NODE_LOST: "test_a_rollouts_lost_node_is_replaced_by_another_and_the_trainer_stays",
    Reason.ROLLOUT_BELOW_DESIRED: "test_enough_rollouts_are_ready_though_not_all",
    Reason.CHECKPOINTS_NOT_DURABLE: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.PLAN_DRIFT: "test_a_number_of_rollouts_that_does_not_fit_changes_nothing_and_says_so",
    Reason.AS_PLANNED: "test_a_job_with_durable_checkpoints_is_as_planned",
    Reason.ALL_STEPS_DONE: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    Reason.NO_LEARNING_SIGNAL: "test_a_coordinator_says_that_there_is_nothing_to_learn",
    Reason.TRAINER_FAILED: "test_a_process_that_gives_up_fails_the_job_in_its_words",
    Reason.ROLLOUT_FAILED: "test_a_process_that_gives_up_names_its_role",
    Reason.COORDINATOR_FAILED: "test_a_process_that_gives_up_names_its_role",
    Reason.FAILURE_POLICY: "test_a_rule_fails_the_job_for_an_exit_code",
    Reason.BACKOFF_LIMIT_EXCEEDED: "test_more_restarts_than_allowed_fail_the_job",
    Reason.DEADLINE_EXCEEDED: "test_a_run_longer_than_its_deadline_fails_and_frees_its_gpus",
    Reason.STARTUP_DEADLINE_EXCEEDED: (
        "test_a_missing_volume_fails_the_job_within_its_start_up_deadline"
    ),
    Reason.UNSCHEDULABLE_DEADLINE_EXCEEDED: "test_waiting_for_gpus_has_a_deadline_of_its_own",
    Reason.FINISHED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
}

EVENTS = {
    EventReason.PLAN_STARTED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    EventReason.PLAN_SUCCEEDED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    EventReason.PLAN_INFEASIBLE: "test_a_planner_in_trouble_is_told_and_asked_again",
    EventReason.REPLAN_REJECTED: "test_pods_on_a_cordoned_machine_run_on",
    EventReason.REPLANNED: "test_scaling_adds_and_removes_rollouts_and_touches_nothing_else",
    EventReason.INVALID_SPEC: "test_what_cannot_be_worked_on_is_announced",
    EventReason.FAILED_TO_APPLY: "test_an_object_that_is_refused_is_told_with_the_reason",
    EventReason.QUEUED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    EventReason.ADMITTED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    EventReason.EVICTED: "test_a_job_waits_is_admitted_evicted_and_admitted_again",
    EventReason.QUEUE_IGNORED: "test_a_label_that_means_nothing_is_said_to_mean_nothing",
    EventReason.GANG_STARTED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    EventReason.RUNNING: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    EventReason.STALLED: "test_a_job_without_steps_stalls_and_nothing_else_happens",
    EventReason.TRAINER_RESTARTED: "test_trainers_restart_together_and_rollouts_stay",
    EventReason.ROLE_RESTARTED: "test_a_failure_restarts_what_its_rule_says",
    EventReason.JOB_RESTARTED: "test_a_failure_restarts_what_its_rule_says",
    EventReason.POD_REPLACED: (
        "test_a_rollout_that_stays_stuck_is_replaced_while_the_others_go_on"
    ),
    EventReason.SCALED_ROLLOUT: "test_scaling_adds_and_removes_rollouts_and_touches_nothing_else",
    EventReason.CHECKPOINT_REQUESTED: (
        "test_suspending_asks_for_a_checkpoint_before_anything_else_stops"
    ),
    EventReason.SUSPENDED: "test_suspending_asks_for_a_checkpoint_before_anything_else_stops",
    EventReason.RESUMED: "test_suspending_asks_for_a_checkpoint_before_anything_else_stops",
    EventReason.COMPLETED: "test_a_job_says_what_holds_from_its_plan_to_its_end",
    EventReason.FAILED: "test_a_run_longer_than_its_deadline_fails_and_frees_its_gpus",
    EventReason.TTL_EXPIRED: "test_a_finished_job_is_deleted_when_its_time_is_over",
    EventReason.RELEASE_FORCED: "test_a_deleted_job_is_let_go_at_its_deadline_whatever_is_left",
}

DEADLINES = {
    "startupDeadlineSeconds": "test_a_missing_volume_fails_the_job_within_its_start_up_deadline",
    "unschedulableDeadlineSeconds": "test_waiting_for_gpus_has_a_deadline_of_its_own",
    "progressDeadlineSeconds": "test_a_job_without_steps_stalls_and_nothing_else_happens",
    "activeDeadlineSeconds": "test_a_run_longer_than_its_deadline_fails_and_frees_its_gpus",
    "ttlSecondsAfterFinished": "test_a_finished_job_is_deleted_when_its_time_is_over",
    "releaseDeadlineSeconds": "test_a_deleted_job_is_let_go_at_its_deadline_whatever_is_left",
    "nodeLostSeconds": "test_a_rollouts_lost_node_is_replaced_by_another_and_the_trainer_stays",
    "windowSeconds": "test_more_restarts_than_allowed_fail_the_job",
}
"""Fields of the spec, those of its failure policy among them, that end a wait."""
