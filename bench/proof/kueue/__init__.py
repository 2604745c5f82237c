"""Jobs in a queue of the real Kueue: admitted, preempted, admitted again, finished."""
