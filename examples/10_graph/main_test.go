package main

func Example() {
	main()
	// Output:
	// [2,2] [0.50713784 -0.20310128 0.45393738 -0.22058026]
	// the same bits: true
}
