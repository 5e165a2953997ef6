module github.com/refrun/refrun/scripts/_mutate

go 1.26.0
