"""The recovery checker on real actors: every state and crash point of the explored graph, played by what runs."""
