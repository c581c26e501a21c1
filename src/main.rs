//! The copyrator binary.
fn main() {}
