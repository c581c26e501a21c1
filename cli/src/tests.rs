//! What the tests of the commands share.

pub(crate) mod fake_cluster;
