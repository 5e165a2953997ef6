module github.com/refrun/refrun/scripts/_sbom

go 1.26.0

require github.com/CycloneDX/cyclonedx-go v0.12.0
