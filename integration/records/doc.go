// Package records tests the recipes of deploy/records: records that a real daemon wrote of planted faults go through
// Vector's language into ClickHouse and Loki's own engine, and each saved question has to name the fault.
package records
