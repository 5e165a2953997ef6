package main

func Example() {
	main()
	// Output:
	// as PyTorch wrote it: PASS-CONFORMING
	// one number changed: FAIL-LOGIC at step 7
}
