"""What tools/bench_peers.py is made of."""
