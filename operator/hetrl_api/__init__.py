"""The API as users write it: pydantic models of HetRLJob, HetRLPlan and HetRLTopology.

They are the only source: CRDs, the chart's copy and the reference page are written from
them. They turn YAML into the core's values and plans into objects; nothing here talks to
a cluster or decides anything.
"""
