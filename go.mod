module github.com/refrun/refrun

go 1.26
