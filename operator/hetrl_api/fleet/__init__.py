"""HetRLTopology and Nodes, and the machines and GPU kinds that follow from them."""
