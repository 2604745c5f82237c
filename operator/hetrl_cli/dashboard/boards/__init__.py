"""Dashboards as values: boards, panels and the expressions that they query."""
