package main

func Example() {
	main()
	// Output:
	// step 1: [1,3,16,16] float32, first numbers [-0.010986 -0.010864]
	// step 2: [1,3,16,16] float32, first numbers [-0.021973 -0.021729]
	// step 3: [1,3,16,16] float32, first numbers [-0.033020 -0.032593]
	// step 4: [1,3,16,16] float32, first numbers [-0.044067 -0.043518]
	// step 5: [1,3,16,16] float32, first numbers [-0.055115 -0.054443]
}
