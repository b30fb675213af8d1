# CPack includes this file before it makes the package of another processor: dpkg-shlibdeps has no data of that
# processor's packages. A library has the same name in a package of the same name here.
execute_process(COMMAND dpkg-architecture --query DEB_HOST_MULTIARCH
  OUTPUT_VARIABLE triplet OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
foreach(program embedding-ps embedding-worker nn-worker row-server simurgh simurgh-feed)
  list(APPEND programs "${CPACK_SIMURGH_BIN_DIR}/${program}")
endforeach()
execute_process(COMMAND "${CPACK_SIMURGH_READELF}" --needed-libs ${programs}
  OUTPUT_VARIABLE needed COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCHALL "lib[^ \n]+\\.so[.0-9]*" libraries "${needed}")
list(REMOVE_DUPLICATES libraries)
list(TRANSFORM libraries PREPEND "*/${triplet}/")
execute_process(COMMAND dpkg-query --search ${libraries} OUTPUT_VARIABLE owners COMMAND_ERROR_IS_FATAL ANY)
string(REGEX REPLACE ":[^\n]*\n" ";" owners "${owners}")
list(REMOVE_ITEM owners "")
list(REMOVE_DUPLICATES owners)
list(SORT owners)
list(JOIN owners ", " owners)
string(APPEND CPACK_DEBIAN_PACKAGE_DEPENDS ", ${owners}")
