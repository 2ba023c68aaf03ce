"""Tests that need a Citus cluster; `make citus` also runs the tests of behaviour on one."""
