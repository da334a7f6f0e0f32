"""Components: Stage moves the start, Contract rewrites the interface, Chain joins environments; Tap records."""
