//! Floor.
fn main() {}
