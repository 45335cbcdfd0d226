//! oxb-http
