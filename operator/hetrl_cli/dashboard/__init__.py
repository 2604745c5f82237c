"""Dashboards of jobs, fleets and the operator: defined once as values, drawn twice.

    expression ─▶ panel ─▶ job_board, fleet_board, operator_board ─┬─▶ grafana ─▶ the chart's JSON
                                                                  └─▶ server ─▶ a page in a browser
                                    promql ─▶ prometheus ─┐            ▲
                                  evaluate ─▶ recorded ───┴── source ──┘

A panel says what it asks for once; Grafana and the page draw the same. The page's figures come
from any Prometheus, or from what `hetrl run` recorded. Measuring is left to the processes, and
recording to ``hetrl_cli.run``.
"""
