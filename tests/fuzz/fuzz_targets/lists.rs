#![no_main]
libfuzzer_sys::fuzz_target!(|input: &[u8]| copyrator_fuzz::lists::check(input));
