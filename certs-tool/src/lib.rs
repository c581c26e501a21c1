//! Certificates of an admission webhook: issue, inspect, rotate.
