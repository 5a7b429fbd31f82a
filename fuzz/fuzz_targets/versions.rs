//! The order of resourceVersions is that of their numbers, shorter first and then digit by digit (KEP-5504), and a version
//! comes back from its text.
#![no_main]

use crier::model::ResourceVersion;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (String, String)| {
    let (Ok(one), Ok(other)) = (input.0.parse::<ResourceVersion>(), input.1.parse::<ResourceVersion>()) else { return };
    assert_eq!((one.to_string(), other.to_string()), input);
    let by_text = input.0.len().cmp(&input.1.len()).then_with(|| input.0.cmp(&input.1));
    assert_eq!(one.cmp(&other), by_text);
});
