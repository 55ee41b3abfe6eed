# Builds the crate in CRATE with cargo and copies the library to OUTPUT. The
# lock keeps build folders that share TARGET from copying each other's library.
file(MAKE_DIRECTORY ${TARGET})
file(LOCK ${TARGET} DIRECTORY GUARD PROCESS)
execute_process(
  COMMAND ${CARGO} build --release --locked --quiet --manifest-path
          ${CRATE}/Cargo.toml --target-dir ${TARGET}
  RESULT_VARIABLE failed)
if(failed)
  message(FATAL_ERROR "cargo build failed in ${CRATE}")
endif()
file(COPY ${TARGET}/release/libquern_text_rust.a DESTINATION ${OUTPUT})
file(TOUCH ${OUTPUT}/libquern_text_rust.a)
