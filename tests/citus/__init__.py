"""Tests that need a Citus cluster; `make citus` also runs other tests on one."""
