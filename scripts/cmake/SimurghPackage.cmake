# `cmake --install`, and a Debian package by `cpack`.
include(GNUInstallDirs)

install(TARGETS embedding-ps embedding-worker nn-worker row-server simurgh simurgh-feed RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})
install(DIRECTORY config/deploy/systemd/ DESTINATION lib/systemd/system FILES_MATCHING PATTERN "*.service")
install(FILES README.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(FILES config/README.md DESTINATION ${CMAKE_INSTALL_DOCDIR} RENAME configuration.md)
install(FILES include/simurgh/plugin.h DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/simurgh)
# Configurations with data, to try what was installed.
install(DIRECTORY config/ DESTINATION ${CMAKE_INSTALL_DATADIR}/simurgh/examples
  FILES_MATCHING PATTERN "adult*.yaml" PATTERN "data/adult/*" PATTERN adult-plugin.yaml EXCLUDE
  PATTERN plugins EXCLUDE PATTERN deploy EXCLUDE PATTERN monitoring EXCLUDE)
install(DIRECTORY config/monitoring/ DESTINATION ${CMAKE_INSTALL_DATADIR}/simurgh/monitoring)

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_VENDOR "The Simurgh authors")
set(CPACK_PACKAGE_CONTACT "The Simurgh authors <simurgh@localhost>")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_VERBATIM_VARIABLES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS adduser)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "ca-certificates, libcurl4")  # Models in buckets need them.
set(CPACK_DEBIAN_PACKAGE_DESCRIPTION "${PROJECT_DESCRIPTION}
 Three daemons train models whose embedding tables are larger than a machine: embedding-ps keeps the rows,
 embedding-worker pools them, nn-worker computes the dense network. The program simurgh trains, predicts,
 serves and exports.")
if(CMAKE_SYSTEM_PROCESSOR STREQUAL "x86_64")
  string(APPEND CPACK_DEBIAN_PACKAGE_DESCRIPTION " Needs a processor with AVX2 (x86-64-v3).")
endif()
set(CPACK_DEBIAN_PACKAGE_CONTROL_EXTRA "${PROJECT_SOURCE_DIR}/config/deploy/debian/postinst"
  "${PROJECT_SOURCE_DIR}/config/deploy/debian/prerm" "${PROJECT_SOURCE_DIR}/config/deploy/debian/postrm")
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
if(CMAKE_CROSSCOMPILING)
  set(CPACK_DEBIAN_PACKAGE_ARCHITECTURE arm64)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS OFF)
  set(CPACK_SIMURGH_READELF "${CMAKE_READELF}")
  set(CPACK_SIMURGH_BIN_DIR "${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
  set(CPACK_PROJECT_CONFIG_FILE "${PROJECT_SOURCE_DIR}/scripts/cmake/CrossPackage.cmake")
endif()
include(CPack)
